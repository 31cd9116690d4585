// Package openai reads, checks and edits the bodies of OpenAI-compatible
// requests, and writes errors in OpenAI's shape.
//
// Parse is one pass over the bytes. It accepts a strict subset of what the
// engine behind it accepts and reads that subset as the engine does, so that
// the two can never see different documents: names are compared exactly and
// after unescaping, a name given twice in one object is refused, text must be
// valid UTF-8 without lone surrogates, and nothing may follow the object.
//
// vLLM reads a body with Python's json module and then with pydantic in lax
// mode. The values Parse itself looks at follow the rules of that mode:
//
//	whole numbers (n, max_tokens, max_completion_tokens)
//	  100, -1, -0          read as they are
//	  100.0, 1e2, 100e-2   read when the value is whole after rounding to float64
//	  1.5, 1e400           refused
//	  true, false          1 and 0
//	  "100", " 5 ", "+5", "05", "1_000", "5.0"
//	                       read: white space around, one sign, leading zeros,
//	                       single underscores between digits, a fraction of zeros
//	  "", "1e2", "5.", "0x10", "1__0", "5.5", other digits than 0-9
//	                       refused
//	  [], {}               refused
//	  null                 as if absent
//	flags (stream, include_usage, echo, ...)
//	  true, false; 0, 1, 0.0, 1.0; "true", "t", "yes", "y", "on", "1" and
//	  "false", "f", "no", "n", "off", "0" in any case without white space
//	  null                 as if absent
//	text (model, role, ...) only strings; null as if absent
//
// Beyond that Parse is stricter than the engine: token ids must be plain
// integers, limits must be between 1 and MaxLimit, and the counts in Limits
// hold. No error message holds text of the request.
package openai
