// Package trace reads request traces for package fleet: its own format, and
// those in which public traces come. A file may be gzip-compressed; the format
// is told from its first line.
//
// The native format is JSON lines, one request each:
//
//	{"t":1.25,"tenant":"acme","prompt":1800,"output":300,"max_tokens":512,"adapter":"legal","content":[7,8,9],"after":3}
//
// t is seconds from the start, or from the end of request number after (counted
// from 1) if that is set; prompt and output are tokens. The rest may be
// missing. Content names the beginning of the prompt, one number per block of
// tokens: prompts that begin with equal numbers begin with equal tokens. The
// first line may be {"block":64}, the tokens per number; without it, 16.
//
// The other formats, with what they leave open:
//
//   - Mooncake JSON lines (timestamp in ms, input_length, output_length,
//     hash_ids of 512 tokens). Equal timestamps are spread evenly up to the
//     next one, since Mooncake's are rounded to about 3 s.
//   - CSV with a header of t_s, tenant, input_tokens and output_tokens, of
//     which tenant may be missing, or without a header: time, input, output.
//   - CSV of input_tokens and output_tokens alone: arrivals are a Poisson
//     process of Options.Rate.
//   - Agent sessions as tab-separated values (session, agent, t_s, think_s,
//     input_tokens, output_tokens, api_s, blocks64): sessions begin as a
//     Poisson process of Options.Rate, an agent's first request comes at its
//     time in the session, and each other one a think time after the answer to
//     the one before.
package trace
