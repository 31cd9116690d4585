package metrics_test

import (
	"bufio"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/metrics"
)

func ExampleMetrics() {
	m := metrics.New(metrics.Config{Names: metrics.Names{Pools: []string{"main"}, Models: []string{"llama"}}})
	m.Write(&expediter.Record{Pool: "main", Model: "llama", Attempts: 1, Status: expediter.StatusOK, HTTPStatus: 200})
	m.Write(&expediter.Record{Model: "a name nobody configured", Status: expediter.StatusRefused, HTTPStatus: 404})

	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for sc := bufio.NewScanner(w.Body); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "expediter_requests_total") || strings.HasPrefix(sc.Text(), "expediter_responses_total") {
			fmt.Println(sc.Text())
		}
	}
	// Output:
	// expediter_requests_total{endpoint="other",model="llama",pool="main",status="ok",stream="false"} 1
	// expediter_requests_total{endpoint="other",model="other",pool="none",status="refused",stream="false"} 1
	// expediter_responses_total{code="200"} 1
	// expediter_responses_total{code="404"} 1
}
