package main

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// most is how much of a part search looks at: more would make the index large, and
// finds a word where it is only mentioned.
const most = 1500

// searchIndex is what the page's script searches: the pages, and their parts.
func searchIndex(pages []*page) []byte {
	type part [4]any // page, anchor, heading, text
	index := struct {
		Pages [][2]string `json:"pages"`
		Parts []part      `json:"parts"`
	}{}
	for i, p := range pages {
		index.Pages = append(index.Pages, [2]string{p.name, p.title})
		for _, t := range p.texts {
			index.Parts = append(index.Parts, part{i, t.anchor, t.heading, cut(t.body)})
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(index); err != nil { // it is all text
		panic(err)
	}
	return b.Bytes()
}

// cut shortens a text at a rune.
func cut(s string) string {
	if len(s) <= most {
		return s
	}
	end := most
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
