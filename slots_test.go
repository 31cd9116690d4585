package expediter_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/sim"
)

// spyMap notes what it is told of what a slot was found to hold.
type spyMap struct {
	*prefix.Table
	mu   sync.Mutex
	told []string
}

func (m *spyMap) Observe(slot, predicted, cached int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, fmt.Sprintf("slot %d: predicted %d, cached %d", slot, predicted, cached))
	m.Table.Observe(slot, predicted, cached)
}

// heard returns what was told since the last call.
func (m *spyMap) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = nil
	return told
}

// TestSlotOfADepartedReplica: what requests on a replica that left find out is
// not held against the one that has its slot by then.
func TestSlotOfADepartedReplica(t *testing.T) {
	spy := &spyMap{Table: prefix.NewTable(prefix.TableConfig{})}
	o := option{
		config: func(c *expediter.Config) { c.Pools[0].Prefix = spy },
		sim:    func(c *sim.Config) { c.Speed = 1 },
	}
	long := func(c string) string { return strings.Repeat(c+" the same long prompt ", 100) }
	inMemory(t, o, func(t *testing.T, h *house) {
		h.chat(chatBody(false, 2, long("a")))
		h.chat(chatBody(false, 2, long("a")))
		if got := len(spy.heard()); got != 2 {
			t.Fatalf("the map heard of %d requests on a member, want 2", got)
		}
		resp := h.post(context.Background(), "/v1/chat/completions", chatBody(true, 60, long("a")))
		gone := h.replicas[0].reg
		h.pool.Remove(gone)
		h.addReplica(o, 1)
		heir := h.replicas[1].reg
		if heir.Slot() != gone.Slot() {
			t.Fatalf("the newcomer has slot %d, want that of the departed, %d", heir.Slot(), gone.Slot())
		}
		h.chat(chatBody(false, 2, long("b")))
		h.chat(chatBody(false, 2, long("b")))
		if got := len(spy.heard()); got != 2 {
			t.Fatalf("the map heard of %d requests on the newcomer, want 2", got)
		}
		readAll(t, resp)
		records := h.records.wait(t, 5)
		if last := records[4]; last.Replica != gone.Name() || last.Predicted == 0 || last.Status != expediter.StatusOK {
			t.Fatalf("the last record = %+v, want a success on the departed replica with cached tokens predicted", last)
		}
		if told := spy.heard(); !slices.Equal(told, nil) {
			t.Errorf("the map heard of a request on the departed replica: %v", told)
		}
	})
}
