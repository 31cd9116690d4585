package sim

import "time"

// KVEvents makes a Server publish what happens in its KV cache, as vLLM does
// with --kv-events-config. Blocks then carry vLLM's own hashes, see BlockHashes.
type KVEvents struct {
	// Arrays selects the encoding of vLLM up to 0.23, where an event is an
	// array that begins with its type; if false, the one since 0.24, a map.
	Arrays bool
	// Publish gets every batch: its number, from 0 for each process, and its
	// MessagePack payload [time, events, rank]. It is called after each engine
	// step that changed the cache, in order, and must neither block nor call the
	// Server. The payload is Publish's to keep.
	Publish func(number uint64, payload []byte)
}

// eventLog collects the events of one step.
type eventLog struct {
	cfg    *KVEvents
	events []byte
	n      int
	number uint64
}

// stored records that blocks [from, to) of a choice can be found.
func (l *eventLog) stored(ch *choice, lora int32, from, to, size int) {
	hashes := ch.seq.Blocks
	to = min(to, len(hashes))
	if from >= to {
		return
	}
	b := l.open("BlockStored", 8)
	b = packArray(l.key(b, "block_hashes"), to-from)
	for _, h := range hashes[from:to] {
		b = packUint(b, h)
	}
	b = l.key(b, "parent_block_hash")
	if from == 0 {
		b = packNil(b)
	} else {
		b = packUint(b, hashes[from-1])
	}
	b = packArray(l.key(b, "token_ids"), (to-from)*size)
	for i := from * size; i < to*size; i++ {
		b = packUint(b, uint64(ch.token(i)))
	}
	b = packUint(l.key(b, "block_size"), uint64(size))
	b = l.key(b, "lora_id")
	if lora == 0 {
		b = packNil(b)
	} else {
		b = packUint(b, uint64(lora))
	}
	b = packString(l.key(b, "medium"), "GPU")
	b = l.key(b, "lora_name")
	if lora == 0 {
		b = packNil(b)
	} else {
		b = packString(b, ch.call.adapter)
	}
	l.events = b
}

func (l *eventLog) removed(hash uint64) {
	b := l.open("BlockRemoved", 3)
	b = packUint(packArray(l.key(b, "block_hashes"), 1), hash)
	l.events = packString(l.key(b, "medium"), "GPU")
}

func (l *eventLog) cleared() { l.events = l.open("AllBlocksCleared", 1) }

// open begins an event of n fields, its type among them.
func (l *eventLog) open(typ string, n int) []byte {
	l.n++
	if l.cfg.Arrays {
		return packString(packArray(l.events, n), typ)
	}
	return packString(packString(packMap(l.events, n), "type"), typ)
}

// key names the next field, where fields have names.
func (l *eventLog) key(b []byte, name string) []byte {
	if l.cfg.Arrays {
		return b
	}
	return packString(b, name)
}

// flush publishes what was collected as one batch.
func (l *eventLog) flush(now time.Time) {
	if l.n == 0 {
		return
	}
	b := packFloat(packArray(nil, 3), float64(now.UnixNano())/1e9)
	b = append(packArray(b, l.n), l.events...)
	b = packUint(b, 0)
	l.cfg.Publish(l.number, b)
	l.number++
	l.events, l.n = l.events[:0], 0
}

// token is the id of token i of the choice's sequence.
func (ch *choice) token(i int) uint32 {
	if i < len(ch.ids) {
		return ch.ids[i]
	}
	return ch.out[i-len(ch.ids)]
}

// ResetPrefixCache drops all cached blocks; it reports false, and does
// nothing, while a request holds blocks.
func (s *Server) ResetPrefixCache() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.eng.ResetPrefixCache() {
		return false
	}
	if s.log.cfg != nil {
		s.log.cleared()
		s.log.flush(time.Now())
	}
	return true
}
