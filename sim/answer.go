package sim

import "strconv"

// appendAnswer appends the body of an answer that does not stream.
func (s *Server) appendAnswer(b []byte, c *call) []byte {
	object := "text_completion"
	if c.req.chat {
		object = "chat.completion"
	}
	b = appendHead(b, c, object)
	for i := range c.choices {
		if i > 0 {
			b = append(b, ',')
		}
		if c.req.chat {
			b = appendMessage(b, &c.choices[i])
		} else {
			b = appendText(b, &c.choices[i])
		}
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":null`...)
	cached := -1
	if !s.cfg.HideCachedTokens {
		cached = c.cached()
	}
	b = appendUsage(b, c.prompt, c.generated(), cached)
	if c.req.chat {
		b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
		if c.req.ReturnTokenIDs {
			b = appendIDs(b, c.choices[0].ids)
		} else {
			b = append(b, `null`...)
		}
	}
	return append(b, `,"kv_transfer_params":null}`...)
}

func appendMessage(b []byte, ch *choice) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(ch.index), 10)
	b = append(b, `,"message":{"role":"assistant","content":`...)
	b = appendString(b, string(ch.body))
	b = append(b, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},"logprobs":null`...)
	b = appendReason(b, ch, true)
	b = append(b, `,"token_ids":`...)
	return append(ch.appendIDs(b), '}')
}

func appendText(b []byte, ch *choice) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(ch.index), 10)
	b = append(b, `,"text":`...)
	text := string(ch.body)
	if ch.call.req.Echo {
		text = ch.call.echo(ch) + text
	}
	b = appendString(b, text)
	b = append(b, `,"logprobs":null`...)
	b = appendReason(b, ch, true)
	b = append(b, `,"token_ids":`...)
	b = ch.appendIDs(b)
	b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
	if ch.call.req.ReturnTokenIDs {
		b = appendIDs(b, ch.ids)
	} else {
		b = append(b, `null`...)
	}
	return append(b, '}')
}

// appendIDs appends the ids of the generated tokens, or null if nobody asked.
func (ch *choice) appendIDs(b []byte) []byte {
	if !ch.call.req.ReturnTokenIDs {
		return append(b, `null`...)
	}
	return appendIDs(b, ch.out[:ch.sent])
}

// echo is the text of the choice's prompt.
func (c *call) echo(ch *choice) string {
	return c.req.echoed[ch.index/c.req.count()]
}
