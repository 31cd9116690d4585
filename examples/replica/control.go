package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/expediterhq/expediter/sim"
)

// controls are the routes that switch faults while the replica runs.
func (r *replica) controls() http.Handler {
	mux := http.NewServeMux()
	do := func(name string, f func(url.Values) error) {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, req *http.Request) {
			if err := f(req.URL.Query()); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.logger.Info("control", "action", name, "query", req.URL.RawQuery)
		})
	}
	plain := func(f func()) func(url.Values) error {
		return func(url.Values) error { f(); return nil }
	}
	do("hang", plain(r.srv.Hang))
	do("resume", plain(r.srv.Resume))
	do("restart", plain(r.srv.Restart))
	do("die", plain(func() { os.Exit(137) }))
	do("speed", func(q url.Values) error {
		x, err := strconv.ParseFloat(q.Get("x"), 64)
		if err != nil || !(x > 0) {
			return fmt.Errorf("x is %q, want a number above 0", q.Get("x"))
		}
		r.srv.SetSpeed(x)
		return nil
	})
	do("fault", func(q url.Values) error {
		f, err := sim.ParseFaults(q.Get("rules"))
		if err == nil {
			r.srv.SetFault(f)
		}
		return err
	})
	for name, set := range map[string]func(sim.Trouble){"health": r.srv.SetHealth, "metrics": r.srv.SetMetrics, "models": r.srv.SetModels} {
		do(name, func(q url.Values) error {
			t, err := trouble(q)
			if err == nil {
				set(t)
			}
			return err
		})
	}
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.srv.Stats())
	})
	return mux
}

// trouble reads what shall be wrong with a route; without parameters, nothing.
func trouble(q url.Values) (t sim.Trouble, err error) {
	for name := range q {
		v := q.Get(name)
		switch name {
		case "status":
			t.Status, err = strconv.Atoi(v)
			if err == nil && (t.Status < 200 || t.Status > 599) {
				err = fmt.Errorf("not 200 to 599")
			}
		case "delay":
			t.Delay, err = time.ParseDuration(v)
		case "hang":
			t.Hang, err = strconv.ParseBool(v)
		case "stale":
			t.Stale, err = strconv.ParseBool(v)
		case "garbage":
			t.Garbage = []byte(v)
		default:
			err = fmt.Errorf("unknown")
		}
		if err != nil {
			return t, fmt.Errorf("%s is %q: %w", name, v, err)
		}
	}
	return t, nil
}
