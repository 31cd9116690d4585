package tokenize

import (
	"fmt"
	"strings"
)

// decoder says how the texts of tokens become text again.
type decoder struct {
	byteLevel   bool
	mark        string // written as a space, "" for none
	fallback    bool   // tokens like <0x0A> stand for bytes
	stripFirst  bool   // one space at the start was not in the text
	unsupported string // feature of the file's decoder that is not known
}

// AppendDecoded appends the text of ids to dst, special tokens included. The
// result need not be valid UTF-8: a character may be spread over tokens. Its
// errors are about ids that the model does not have, and about files whose
// decoder is not supported.
func (b *BPE) AppendDecoded(dst []byte, ids []uint32) ([]byte, error) {
	if b.decoder.unsupported != "" {
		return dst, &UnsupportedError{"decoder", b.decoder.unsupported}
	}
	for i, id := range ids {
		if content, ok := b.added[id]; ok {
			dst = append(dst, content...)
			continue
		}
		token, ok := b.words.vocab.token(id)
		if !ok {
			return dst, fmt.Errorf("tokenize: id %d is not in the vocabulary", id)
		}
		dst = b.decoder.appendToken(dst, token, i == 0)
	}
	return dst, nil
}

// Decode returns the text of ids as AppendDecoded does.
func (b *BPE) Decode(ids []uint32) (string, error) {
	text, err := b.AppendDecoded(nil, ids)
	return string(text), err
}

// TokenID returns the id of an added token, such as a special one, by its text.
func (b *BPE) TokenID(content string) (uint32, bool) {
	for id, c := range b.added {
		if c == content {
			return id, true
		}
	}
	return 0, false
}

func (d *decoder) appendToken(dst []byte, token string, first bool) []byte {
	if d.byteLevel {
		return append(dst, token...)
	}
	if v, ok := byteToken(token); ok && d.fallback {
		return append(dst, v)
	}
	if first && d.stripFirst {
		token = strings.TrimPrefix(token, d.mark)
	}
	if d.mark == "" {
		return append(dst, token...)
	}
	return appendReplaced(dst, token, d.mark, " ")
}

// byteToken returns the byte that a token like <0x0A> stands for.
func byteToken(token string) (byte, bool) {
	const digits = "0123456789ABCDEF"
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	hi, lo := strings.IndexByte(digits, token[3]), strings.IndexByte(digits, token[4])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}
