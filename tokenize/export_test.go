package tokenize

// Forget empties the word caches of b, as they are right after loading.
func (b *BPE) Forget() {
	for i := range b.words.cache.entries {
		b.words.cache.entries[i].size.Store(0)
	}
	if e, _ := b.scratch.Get().(*encoder); e != nil {
		e.shorts = shortWords{}
		b.scratch.Put(e)
	}
}

// Words returns the entries of the word cache that are in use.
func (b *BPE) Words() []int {
	var used []int
	for i := range b.words.cache.entries {
		if b.words.cache.entries[i].size.Load() != 0 {
			used = append(used, i)
		}
	}
	return used
}

// ForgetWords empties the given entries of the word cache, and the short words
// of the encoder used last; it leaves the processor's caches as they are.
func (b *BPE) ForgetWords(used []int) {
	for _, i := range used {
		b.words.cache.entries[i].size.Store(0)
	}
	if e, _ := b.scratch.Get().(*encoder); e != nil {
		e.shorts = shortWords{}
		b.scratch.Put(e)
	}
}

// Uncut returns a copy of b that merges each text as a whole, as a model must
// whose tokens span words.
func (b *BPE) Uncut() *BPE {
	c := &BPE{
		before: b.before, after: b.after, added: b.added, normal: b.normal, meta: b.meta,
		scanners: b.scanners, bos: b.bos, eos: b.eos, decoder: b.decoder,
	}
	c.words = words{
		vocab: b.words.vocab, pairs: b.words.pairs, byteLevel: b.words.byteLevel,
		ignoreMerges: b.words.ignoreMerges, fallback: b.words.fallback, fuse: b.words.fuse,
		mark: b.words.mark, markID: b.words.markID, unk: b.words.unk, bytes: b.words.bytes, ascii: b.words.ascii,
		whole: newWholeWords(len(b.words.vocab.spans)), cache: newWordCache(),
	}
	return c
}

// Used returns the bytes that the cache accounts for.
func (c *Cache) Used() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
