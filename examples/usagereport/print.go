package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

func (r *result) printJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func (r *result) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "tenant\tmodel\trequests\tok\tinput\tcached\toutput\testimated\tcharged\t")
	line := func(x *row, tenant, model string) {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n",
			tenant, model, x.Requests, x.OK, x.Input, x.Cached, x.Output, x.Estimated, x.Charged)
	}
	for i := range r.Rows {
		line(&r.Rows[i], clean(r.Rows[i].Tenant), clean(r.Rows[i].Model))
	}
	line(&r.Total, "total", "")
	if r.Torn > 0 {
		fmt.Fprintf(tw, "\n%d lines break off: a gateway was killed while writing them.\n", r.Torn)
	}
	if r.Bad > 0 {
		fmt.Fprintf(tw, "\n%d entries of the stream are no records.\n", r.Bad)
	}
	if len(r.Charges) > 0 {
		fmt.Fprintln(tw, "\ntenant\trecorded\tcharged\tdifference\trunning\t")
		for _, b := range r.Charges {
			fmt.Fprintf(tw, "%s\t%d\t%d\t%+d\t%d\t\n", clean(b.Tenant), b.Recorded, b.Charged, b.Difference, b.Running)
		}
		if r.differs() {
			fmt.Fprintln(tw, differenceNote)
		}
	}
	return tw.Flush()
}

const differenceNote = `
A positive difference was charged without a record: a gateway was killed, dropped records, or
some files are missing here. A negative one is recorded without a charge: Redis lost its latest
writes, or forgot the tenant. Requests that are still running may appear as either.`

// clean keeps what a client named from steering the terminal.
func clean(s string) string {
	q := fmt.Sprintf("%+q", s)
	if q == `"`+s+`"` && s != "" {
		return s
	}
	return q
}
