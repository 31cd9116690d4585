package redisquota

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var lua embed.FS

// script is a Lua script and the name the server knows it by.
type script struct {
	src, sha string
	arg      any // sha, as an argument
}

// newScript puts a script together: the common beginning, then the named file
// with what it includes.
func newScript(name string) *script {
	body := file(name)
	for _, part := range []string{"read", "drain"} {
		body = strings.ReplaceAll(body, "--include "+part+"\n", file(part))
	}
	src := file("common") + body
	sum := sha1.Sum([]byte(src))
	sha := hex.EncodeToString(sum[:])
	return &script{src: src, sha: sha, arg: sha}
}

func file(name string) string {
	b, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is part of the binary
	}
	return string(b)
}
