package tokenize

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// maxFile bounds the size of a model's files, unpacked.
const maxFile = 256 << 20

// readModelFile reads name, or name.gz where only that exists.
func readModelFile(fsys fs.FS, name string) ([]byte, error) {
	data, err := readBounded(fsys, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	packed, gzErr := readBounded(fsys, name+".gz")
	if errors.Is(gzErr, fs.ErrNotExist) {
		return nil, err
	}
	if gzErr != nil {
		return nil, gzErr
	}
	data, err = gunzip(packed)
	if err != nil {
		return nil, &FormatError{name + ".gz", err}
	}
	return data, nil
}

func readBounded(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, malformed(name, "file is larger than %d bytes", maxFile)
	}
	data := make([]byte, 0, info.Size()+1)
	return appendBounded(data, f)
}

func gunzip(packed []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	// The last four bytes state the unpacked size; they are a hint, for at
	// most what such data can unpack to.
	hint := 0
	if n := len(packed); n > 4 {
		tail := packed[n-4:]
		hint = int(tail[0]) | int(tail[1])<<8 | int(tail[2])<<16 | int(tail[3])<<24
	}
	return appendBounded(make([]byte, 0, min(hint, maxFile, 64*len(packed))+1), zr)
}

// appendBounded appends what r has, which must fit maxFile.
func appendBounded(data []byte, r io.Reader) ([]byte, error) {
	for {
		if len(data) > maxFile {
			return nil, fmt.Errorf("larger than %d bytes", maxFile)
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// tokenizerConfig is what this package reads of a tokenizer_config.json.
type tokenizerConfig struct {
	Class    string        `json:"tokenizer_class"`
	BOS      configToken   `json:"bos_token"`
	EOS      configToken   `json:"eos_token"`
	AddBOS   *bool         `json:"add_bos_token"`
	AddEOS   *bool         `json:"add_eos_token"`
	Template chatTemplates `json:"chat_template"`
}

// configToken is a token given as a string, or as an object with its content.
type configToken string

// UnmarshalJSON decodes either form.
func (t *configToken) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var object struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(data, &object)
		*t = configToken(object.Content)
		return err
	}
	var s string
	err := json.Unmarshal(data, &s)
	*t = configToken(s)
	return err
}

// chatTemplates is a template, or a list of named ones of which the one named
// "default" counts.
type chatTemplates string

// UnmarshalJSON decodes either form.
func (t *chatTemplates) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		var list []struct {
			Name     string `json:"name"`
			Template string `json:"template"`
		}
		err := json.Unmarshal(data, &list)
		for _, named := range list {
			if named.Name == "default" {
				*t = chatTemplates(named.Template)
			}
		}
		return err
	}
	var s string
	err := json.Unmarshal(data, &s)
	*t = chatTemplates(s)
	return err
}

// readConfig reads tokenizer_config.json and chat_template.jinja, either of
// which may be absent. The latter's template wins.
func readConfig(fsys fs.FS) (*tokenizerConfig, error) {
	var c tokenizerConfig
	data, err := readBounded(fsys, "tokenizer_config.json")
	if err == nil {
		if err := unmarshal(data, &c); err != nil {
			return nil, &FormatError{"tokenizer_config.json", err}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenize: %w", err)
	}
	data, err = readBounded(fsys, "chat_template.jinja")
	if err == nil {
		c.Template = chatTemplates(data)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenize: %w", err)
	}
	return &c, nil
}
