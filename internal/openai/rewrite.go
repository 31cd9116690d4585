package openai

import "strconv"

// Edits says what to change in a body. The zero value changes nothing.
type Edits struct {
	Model     string // the model name to send. If empty, as it is
	MaxTokens int    // the limit to send. If zero, as it is
	// MaxField is the field the limit is sent in. If empty, the one the
	// request has, else max_tokens. The other one is removed.
	MaxField string

	IncludeUsage    bool // ask for the usage chunk; only streams are changed
	ContinuousUsage bool // ask for usage in every chunk; only streams are changed

	Drop []string  // top-level fields to remove
	Set  []Setting // top-level fields to set, replacing any the client gave
}

// Setting is a top-level field and its value as JSON.
type Setting struct {
	Name  string
	Value []byte
}

// String returns the setting of a field to a string, for cache_salt and the like.
func String(name, value string) Setting { return Setting{name, appendQuoted(nil, value)} }

// Rewrite appends the body with the edits to dst and returns it. Every byte
// that need not change stays as it is. If dst is nil and nothing changes it
// returns the body itself.
func (r *Request) Rewrite(dst []byte, e Edits) []byte {
	w := rewriter{r: r, e: e, dst: dst}
	w.plan()
	if !w.changed() {
		if dst == nil {
			return r.Body
		}
		return append(dst, r.Body...)
	}
	if dst == nil {
		w.dst = make([]byte, 0, len(r.Body)+256)
	}
	w.splice()
	return w.dst
}

// A rewriter copies a body piece by piece.
type rewriter struct {
	r   *Request
	e   Edits
	dst []byte

	dropMax string // the other field of the limit
	ops     [24]op
	more    []op // for bodies with more fields than ops holds
	edits   int
	kept    bool
}

// op is what becomes of one field.
type op uint8

const (
	keep op = iota
	drop
	replace
)

func (w *rewriter) op(i int) *op {
	if w.more != nil {
		return &w.more[i]
	}
	return &w.ops[i]
}

// plan decides what becomes of each field.
func (w *rewriter) plan() {
	r, e := w.r, &w.e
	if len(r.Fields) > len(w.ops) {
		w.more = make([]op, len(r.Fields))
	}
	if e.MaxTokens > 0 {
		if e.MaxField == "" {
			e.MaxField = r.MaxField
		}
		if e.MaxField == "" || r.Kind == Completion {
			e.MaxField = "max_tokens"
		}
		w.dropMax = "max_tokens"
		if e.MaxField == w.dropMax {
			w.dropMax = "max_completion_tokens"
		}
	}
	if !r.Stream {
		e.IncludeUsage, e.ContinuousUsage = false, false
	}
	e.IncludeUsage = e.IncludeUsage && !r.IncludeUsage
	e.ContinuousUsage = e.ContinuousUsage && !r.ContinuousUsage
	for i, f := range r.Fields {
		*w.op(i) = w.decide(f)
		if *w.op(i) != keep {
			w.edits++
		}
	}
}

func (w *rewriter) decide(f Field) op {
	r, e := w.r, &w.e
	for _, s := range e.Set {
		if s.Name == f.Name {
			return changedTo(string(f.Value) == string(s.Value))
		}
	}
	for _, name := range e.Drop {
		if name == f.Name {
			return drop
		}
	}
	switch f.Name {
	case "model":
		if e.Model != "" {
			return changedTo(e.Model == r.Model)
		}
	case "stream_options":
		return changedTo(!e.IncludeUsage && !e.ContinuousUsage)
	}
	switch {
	case e.MaxTokens <= 0:
	case f.Name == e.MaxField:
		return changedTo(w.limit() == e.MaxTokens)
	case f.Name == w.dropMax && r.Kind == Chat:
		return drop
	}
	return keep
}

func changedTo(same bool) op {
	if same {
		return keep
	}
	return replace
}

// limit is the value the body has in the field the limit is sent in.
func (w *rewriter) limit() int {
	if w.e.MaxField == "max_completion_tokens" {
		return w.r.maxCompletion
	}
	return w.r.maxTokens
}

// missing calls add for each field to be set that the body lacks.
func (w *rewriter) missing(add func(name string)) {
	e := &w.e
	lacks := func(name string) {
		if _, ok := w.r.Field(name); !ok {
			add(name)
		}
	}
	for _, s := range e.Set {
		lacks(s.Name)
	}
	for _, name := range []struct {
		name string
		want bool
	}{
		{"model", e.Model != ""},
		{e.MaxField, e.MaxTokens > 0},
		{"stream_options", e.IncludeUsage || e.ContinuousUsage},
	} {
		if name.want && !w.set(name.name) {
			lacks(name.name)
		}
	}
}

// set reports whether e.Set names the field.
func (w *rewriter) set(name string) bool {
	for _, s := range w.e.Set {
		if s.Name == name {
			return true
		}
	}
	return false
}

func (w *rewriter) changed() bool {
	n := w.edits
	w.missing(func(string) { n++ })
	return n > 0
}

// splice copies the body with the changes. A field takes the separator before
// it along; the first one kept takes the white space after the brace.
func (w *rewriter) splice() {
	r, b := w.r, w.r.Body
	open := r.open()
	w.dst = append(w.dst, b[:open]...)
	at := open
	for i, f := range r.Fields {
		before := b[at:f.start]
		at = f.value.end
		o := *w.op(i)
		if o == drop {
			continue
		}
		if !w.kept {
			before = b[open:r.Fields[0].start]
		}
		w.kept = true
		w.dst = append(w.dst, before...)
		if o == keep {
			w.dst = append(w.dst, b[f.start:f.value.end]...)
			continue
		}
		w.dst = append(w.dst, b[f.start:f.value.start]...)
		w.value(f.Name, f)
	}
	w.missing(func(name string) {
		if w.kept {
			w.dst = append(w.dst, ',')
		}
		w.kept = true
		w.dst = appendQuoted(w.dst, name)
		w.dst = append(w.dst, ':')
		w.value(name, Field{})
	})
	w.dst = append(w.dst, b[at:]...)
}

// open is the offset after the object's brace.
func (r *Request) open() int {
	i := 0
	for r.Body[i] != '{' {
		i++
	}
	return i + 1
}

// value appends the new value of a field; old is the field in the body.
func (w *rewriter) value(name string, old Field) {
	e := &w.e
	for _, s := range e.Set {
		if s.Name == name {
			w.dst = append(w.dst, s.Value...)
			return
		}
	}
	switch name {
	case "model":
		w.dst = appendQuoted(w.dst, e.Model)
	case "stream_options":
		w.streamOptions(old)
	default:
		w.dst = strconv.AppendInt(w.dst, int64(e.MaxTokens), 10)
	}
}

// streamOptions appends stream_options with the wanted flags set and all else
// as the client gave it.
func (w *rewriter) streamOptions(old Field) {
	o := w.r.options
	if !w.r.StreamOptionsPresent {
		old.value, o = span{}, streamOptions{empty: true}
		w.dst = append(w.dst, '{')
	}
	at := old.value.start
	empty := o.empty
	flags := [2]struct {
		want bool
		name string
		at   span
	}{
		{w.e.IncludeUsage, "include_usage", o.include},
		{w.e.ContinuousUsage, "continuous_usage_stats", o.continuous},
	}
	if flags[1].at.end > 0 && flags[1].at.start < flags[0].at.start {
		flags[0], flags[1] = flags[1], flags[0]
	}
	for _, f := range flags {
		if f.want && f.at.end > 0 {
			w.dst = append(w.dst, w.r.Body[at:f.at.start]...)
			w.dst = append(w.dst, "true"...)
			at = f.at.end
		}
	}
	w.dst = append(w.dst, w.r.Body[at:o.end]...)
	for _, f := range flags {
		if f.want && f.at.end == 0 {
			if !empty {
				w.dst = append(w.dst, ',')
			}
			empty = false
			w.dst = appendQuoted(w.dst, f.name)
			w.dst = append(w.dst, ":true"...)
		}
	}
	w.dst = append(w.dst, '}')
}
