// Package chat renders conversations into the text a model is given, exactly
// as the inference engine does.
//
// A Template is compiled once from the model's chat template and then renders
// any number of conversations concurrently. It takes the JSON of an OpenAI
// chat request and applies the preprocessing of vLLM before it renders: field
// order and missing fields of tools, decoding of tool-call arguments, joining
// of content parts by the content format that the template itself shows.
// Harmony is the renderer for gpt-oss models, for which the engine does not
// use a template.
//
// What a template refuses (raise_exception, or a Python-like type error) is an
// *Error; the engine would answer such a request with status 400. Parts that
// are not text cannot be rendered exactly, because only the engine knows how
// many tokens they become; see Info.Approximate.
package chat
