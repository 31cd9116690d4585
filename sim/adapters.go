package sim

import (
	"slices"
	"time"
)

// adapters keeps track of the LoRA adapters of one engine: those in GPU slots
// and those in host memory, each least recently used first. Id 0 is the base
// model and needs no slot.
type adapters struct {
	names    []string
	inFlight []int // unfinished sequences by id
	gpu, cpu []int32
	maxGPU   int
	maxCPU   int
	disk     time.Duration
	copy     time.Duration
	step     []int32 // adapters of the step that is being scheduled
	loads    uint64
}

func newAdapters(maxGPU, maxCPU int) adapters {
	return adapters{names: []string{""}, inFlight: []int{0}, maxGPU: maxGPU, maxCPU: maxCPU}
}

// id returns the number of a name, a new one if it has none.
func (a *adapters) id(name string) int32 {
	if i := slices.Index(a.names, name); i >= 0 {
		return int32(i)
	}
	a.names = append(a.names, name)
	a.inFlight = append(a.inFlight, 0)
	return int32(len(a.names) - 1)
}

func (a *adapters) newStep() { a.step = a.step[:0] }

// fits reports whether the step that is being scheduled may use id.
func (a *adapters) fits(id int32) bool {
	return id == 0 || len(a.step) < a.maxGPU || slices.Contains(a.step, id)
}

func (a *adapters) use(id int32) {
	if id != 0 && !slices.Contains(a.step, id) {
		a.step = append(a.step, id)
	}
}

// loadStep brings the step's adapters into GPU slots and returns the stall:
// the worker loads one after the other, before the step computes anything.
func (a *adapters) loadStep() time.Duration {
	var stall time.Duration
	for _, id := range a.step {
		touch(&a.gpu, id)
	}
	for _, id := range a.step {
		stall += a.load(id)
	}
	return stall
}

// load makes id resident and the most recently used, and returns how long that takes.
func (a *adapters) load(id int32) time.Duration {
	if touch(&a.gpu, id) {
		touch(&a.cpu, id)
		return 0
	}
	a.loads++
	stall := a.copy
	if !touch(&a.cpu, id) {
		stall += a.disk
		a.cpu = push(a.cpu, id, a.maxCPU)
	}
	a.gpu = push(a.gpu, id, a.maxGPU)
	return stall
}

// touch moves id to the end of the list and reports whether it was there.
func touch(list *[]int32, id int32) bool {
	l := *list
	i := slices.Index(l, id)
	if i < 0 {
		return false
	}
	copy(l[i:], l[i+1:])
	l[len(l)-1] = id
	return true
}

// push appends id and drops the front of a full list.
func push(list []int32, id int32, limit int) []int32 {
	if len(list) >= limit {
		copy(list, list[1:])
		list = list[:len(list)-1]
	}
	return append(list, id)
}
