package chat

// preprocess does to a conversation what the engine does before it renders.
func (c *conversation) preprocess(format ContentFormat) error {
	return nil
}
