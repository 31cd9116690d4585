package tokenize

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/expediterhq/expediter/tokenize/internal/jsonscan"
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
	hint := int64(0)
	if n := len(packed); n > 4 {
		hint = int64(binary.LittleEndian.Uint32(packed[n-4:]))
	}
	return appendBounded(make([]byte, 0, min(hint, maxFile, 64*int64(len(packed)))+1), zr)
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

// tokenizerConfig is what this package reads of a model's configuration.
type tokenizerConfig struct {
	Class    string
	BOS, EOS configToken
	AddBOS   *bool
	AddEOS   *bool
	Template chatTemplates
	harmony  bool // the engine renders conversations in the harmony format
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

// readConfig reads tokenizer_config.json, chat_template.jinja and config.json,
// each of which may be absent. The second's template wins over the first's.
func readConfig(fsys fs.FS) (*tokenizerConfig, error) {
	var c tokenizerConfig
	err := readMembers(fsys, "tokenizer_config.json", map[string]any{
		"tokenizer_class": &c.Class, "bos_token": &c.BOS, "eos_token": &c.EOS,
		"add_bos_token": &c.AddBOS, "add_eos_token": &c.AddEOS, "chat_template": &c.Template,
	})
	if err != nil {
		return nil, err
	}
	template, err := readBounded(fsys, "chat_template.jinja")
	if err == nil {
		c.Template = chatTemplates(template)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenize: %w", err)
	}
	modelType := ""
	if err := readMembers(fsys, "config.json", map[string]any{"model_type": &modelType}); err != nil {
		return nil, err
	}
	c.harmony = modelType == "gpt_oss"
	return &c, nil
}

// readMembers decodes some members of the object in a JSON file, if the file
// exists. It does not mind what the others are: such files are written by
// Python, which knows numbers that JSON does not.
func readMembers(fsys fs.FS, name string, want map[string]any) error {
	data, err := readBounded(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tokenize: %w", err)
	}
	c := jsonscan.New(data)
	err = c.Object(func(key []byte) error {
		to := want[string(key)]
		raw, err := c.Skip()
		if err != nil || to == nil {
			return err
		}
		return unmarshal(raw, to)
	})
	if err == nil {
		err = c.End()
	}
	if err != nil {
		return &FormatError{name, err}
	}
	return nil
}
