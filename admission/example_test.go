package admission_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// One slot, three requests: the second waits until the first is done, the
// third cannot wait that long.
func ExampleController() {
	c, err := admission.NewController(admission.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	var busy atomic.Bool
	start := func() (bool, error) { return busy.CompareAndSwap(false, true), nil }
	ctx := context.Background()

	fmt.Println("first:", c.Admit(ctx, admission.Work{Tenant: "a", Tokens: 100}, start))

	var refusal *admission.Error
	err = c.Admit(ctx, admission.Work{Tenant: "b", Tokens: 100, Deadline: time.Now().Add(time.Millisecond)}, start)
	fmt.Println("impatient:", err, errors.As(err, &refusal) && refusal.RetryAfter() >= time.Second)

	done := make(chan error)
	go func() { done <- c.Admit(ctx, admission.Work{Tenant: "b", Tokens: 100}, start) }()
	busy.Store(false) // the first is done
	c.Freed()
	fmt.Println("second:", <-done)
	// Output:
	// first: <nil>
	// impatient: admission: the deadline cannot be met true
	// second: <nil>
}

// A Line in virtual time: what fits starts, in order.
func ExampleLine() {
	line, err := admission.NewLine(admission.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, w := range []admission.Work{
		{ID: "batch", Tenant: "a", Tier: 1, Tokens: 500},
		{ID: "large", Tenant: "a", Tokens: 9000},
		{ID: "chat", Tenant: "a", Tokens: 800},
	} {
		if _, _, err := line.Push(w, now); err != nil {
			fmt.Println(err)
		}
	}
	room := 2000
	line.Opened()
	for it := line.Next(now); it != nil; it = line.Next(now) {
		if it.Tokens > room {
			line.Refuse(it, now)
			continue
		}
		room -= it.Tokens
		fmt.Println("start", it.ID)
		line.Start(it, now)
	}
	fmt.Println("waiting:", line.Len())
	// Output:
	// start chat
	// start batch
	// waiting: 1
}
