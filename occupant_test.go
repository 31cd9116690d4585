package expediter

import (
	"testing"

	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/registry"
)

// TestAddToTheSlotOfAnother: a replica that left, or restarted, between being
// chosen and being noted, leaves no blocks to who is known in its slot.
func TestAddToTheSlotOfAnother(t *testing.T) {
	blocks := []uint64{1, 2, 3}
	for _, tt := range []struct {
		name   string
		change func(p *registry.Pool, r *registry.Replica)
		want   int
	}{
		{"nothing changes", func(*registry.Pool, *registry.Replica) {}, 3},
		{"it restarts", func(_ *registry.Pool, r *registry.Replica) { r.Restarted() }, 0},
		{"it leaves and another joins", func(p *registry.Pool, r *registry.Replica) {
			p.Remove(r)
			if _, err := p.Add(registry.ReplicaConfig{URL: "http://10.0.0.2"}); err != nil {
				t.Fatal(err)
			}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := registry.NewPool(registry.PoolConfig{Name: "small"})
			if err != nil {
				t.Fatal(err)
			}
			chosen, err := p.Add(registry.ReplicaConfig{URL: "http://10.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			generation := chosen.Generation()
			table, s := prefix.NewTable(prefix.TableConfig{}), new(slots)
			tt.change(p, chosen)
			s.forgetChanged(table, p)
			s.add(table, chosen, generation, blocks)
			got := make([]int, p.Slots())
			table.Overlap(got, blocks)
			if got[0] != tt.want {
				t.Errorf("slot 0 is believed to hold %d blocks, want %d", got[0], tt.want)
			}
		})
	}
}
