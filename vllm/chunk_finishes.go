package vllm

// Finishes notes which choices of an answer have ended. The zero value has
// none.
type Finishes struct {
	few  uint64 // choices below 64
	many map[int]struct{}
}

// maxFinishes bounds what a replica can make the gateway remember: the most
// choices the engine allows, for the most prompts it allows, is far above
// what any answer has.
const maxFinishes = 1 << 16

// Add notes the choices that end in c. Those with an index beyond any that
// can be asked for are passed over.
func (f *Finishes) Add(c *Chunk) {
	for i := range c.Finished {
		index := c.Finished[i].Index
		switch {
		case index < 64:
			f.few |= 1 << index
		case index < maxFinishes:
			if f.many == nil {
				f.many = make(map[int]struct{})
			}
			f.many[index] = struct{}{}
		}
	}
}

// All reports whether all choices from 0 to n-1 have ended.
func (f *Finishes) All(n int) bool {
	for i := range n {
		if i < 64 && f.few>>i&1 == 0 {
			return false
		}
		if _, ok := f.many[i]; i >= 64 && !ok {
			return false
		}
	}
	return true
}
