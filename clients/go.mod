module github.com/expediterhq/expediter/clients

go 1.26.0

require (
	github.com/expediterhq/expediter v0.0.0
	github.com/openai/openai-go/v3 v3.98.0
)

replace github.com/expediterhq/expediter => ../
