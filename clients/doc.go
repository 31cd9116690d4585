// Package clients tests the gateway with OpenAI's own client library. It is a
// module of its own, so that the library stays out of the root module.
package clients
