package registry_test

import (
	"testing"

	"github.com/expediterhq/expediter/registry"
)

// TestCapacityOfOneThatJoins: until it reports, a replica has what is configured, or
// the least that another has reported.
func TestCapacityOfOneThatJoins(t *testing.T) {
	for _, tt := range []struct {
		name       string
		configured int
		reported   []int
		want       int
	}{
		{"nobody knows", 0, []int{0, 0}, 0},
		{"the least reported", 0, []int{0, 8000, 4000}, 4000},
		{"configured", 1000, []int{4000}, 1000},
	} {
		p := newPool(t, len(tt.reported), registry.PoolConfig{KVTokens: tt.configured})
		for i, n := range tt.reported {
			p.Replicas()[i].Report(registry.State{At: at(sec), KVTokens: n})
		}
		added, err := p.Add(registry.ReplicaConfig{URL: "http://10.0.0.99:8000"})
		if err != nil {
			t.Fatal(err)
		}
		if full, _ := added.Capacity(); full != tt.want {
			t.Errorf("%s: capacity = %d, want %d", tt.name, full, tt.want)
		}
		added.Report(registry.State{At: at(sec), KVTokens: 6000})
		if full, _ := added.Capacity(); full != 6000 {
			t.Errorf("%s: capacity = %d once it has reported 6000", tt.name, full)
		}
	}
}
