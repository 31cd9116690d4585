package openai

import (
	"time"

	"github.com/expediterhq/expediter/tokenize/chat"
)

// Conversation is what a chat request gives to the model's chat template,
// whose clock is now.
func (r *Request) Conversation(now time.Time) chat.Input {
	return chat.Input{
		Messages: r.Messages, Tools: r.Tools, Documents: r.Documents, Kwargs: r.Kwargs,
		AddGenerationPrompt: r.AddGenerationPrompt, ContinueFinalMessage: r.ContinueFinalMessage,
		ReasoningEffort: r.ReasoningEffort(), Now: now,
	}
}
