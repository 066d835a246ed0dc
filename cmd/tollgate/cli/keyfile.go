package cli

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ReadJWKs reads a setting that holds JWKs, paths of files with one, or a
// mixture, separated by commas or new lines.
func ReadJWKs(text string) ([][]byte, error) {
	var keys [][]byte
	for {
		text = strings.TrimLeft(text, ", \t\r\n")
		if text == "" {
			return keys, nil
		}
		if text[0] == '{' {
			d := jsontext.NewDecoder(strings.NewReader(text))
			value, err := d.ReadValue()
			if err != nil {
				return nil, errors.New("not a JWK, which is one JSON object") // the text may be a secret
			}
			keys = append(keys, bytes.Clone(value))
			text = text[d.InputOffset():]
			continue
		}
		path := text
		if i := strings.IndexAny(text, ",\r\n"); i >= 0 {
			path = text[:i]
		}
		text = text[len(path):]
		content, err := os.ReadFile(strings.TrimSpace(path))
		if err != nil {
			return nil, err
		}
		keys = append(keys, bytes.TrimSpace(content))
	}
}

// ReadSecretKey reads 32 bytes in base64, inline or from a file.
func ReadSecretKey(text string) ([]byte, error) {
	if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil && len(key) == 32 {
		return key, nil
	}
	content, err := os.ReadFile(text)
	if err != nil {
		return nil, errors.New("neither 32 bytes in base64 nor a file that can be read") // the text may be a secret
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(content)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s does not hold 32 bytes in base64", text)
	}
	return key, nil
}

// WriteNew writes a file that must not exist yet, for its owner's eyes only. A
// directory that is not there yet, such as .tollgate, is made for them alone.
func WriteNew(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// ReplaceFile writes a file for its owner's eyes only, all or nothing: a
// reader sees the old content or the new one.
func ReplaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// ReadInput reads a file, or standard input for "-", of at most 16 MiB.
func (a *App) ReadInput(path string) ([]byte, error) {
	const limit = 16 << 20
	in := a.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && len(content) > limit {
		err = fmt.Errorf("%s is larger than 16 MiB", path)
	}
	return content, err
}
