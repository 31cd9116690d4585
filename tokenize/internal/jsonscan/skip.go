package jsonscan

// Skip moves past the next value and returns its text. It balances brackets
// and finds the ends of strings, but leaves the rest of the syntax unchecked:
// whoever reads the text does that.
func (c *Cursor) Skip() ([]byte, error) {
	c.space()
	start, depth := c.pos, 0
	for c.pos < len(c.data) {
		switch b := c.data[c.pos]; b {
		case '"':
			if err := c.skipString(); err != nil {
				return nil, err
			}
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			if depth == 0 {
				return c.skipped(start)
			}
			depth--
			c.pos++
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return c.skipped(start)
			}
			c.pos++
			continue
		default:
			c.pos++
			continue
		}
		if depth == 0 {
			return c.skipped(start)
		}
	}
	if depth > 0 {
		return nil, c.fail("value without end")
	}
	return c.skipped(start)
}

func (c *Cursor) skipped(start int) ([]byte, error) {
	if c.pos == start {
		return nil, c.fail("expected a value")
	}
	return c.data[start:c.pos], nil
}

func (c *Cursor) skipString() error {
	for i := c.pos + 1; i < len(c.data); i++ {
		switch c.data[i] {
		case '"':
			c.pos = i + 1
			return nil
		case '\\':
			i++
		}
	}
	return c.fail("string without end")
}

// Validate reads the whole of data as one value and fails on what New's
// strictness forbids. Small parts of a document can be given to encoding/json
// after it without being altered silently.
func Validate(data []byte) error {
	c := New(data)
	if err := c.validate(); err != nil {
		return err
	}
	return c.End()
}

func (c *Cursor) validate() error {
	switch c.Peek() {
	case '{':
		seen := map[string]bool{}
		return c.Object(func(key []byte) error {
			if seen[string(key)] {
				return c.fail("duplicate key " + string(key))
			}
			seen[string(key)] = true
			return c.validate()
		})
	case '[':
		return c.Array(c.validate)
	case '"':
		_, err := c.String(nil)
		return err
	case 0:
		return c.fail("expected a value")
	}
	_, err := c.Skip() // a number, true, false or null
	return err
}
