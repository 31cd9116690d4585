package redisquota

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

//go:embed lua/common.lua
var commonLua string

//go:embed lua/reserve.lua
var reserveLua string

//go:embed lua/settle.lua
var settleLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/balance.lua
var balanceLua string

// script is a Lua script and the name the server knows it by.
type script struct{ src, sha string }

func newScript(body string) *script {
	src := commonLua + body
	sum := sha1.Sum([]byte(src))
	return &script{src: src, sha: hex.EncodeToString(sum[:])}
}
