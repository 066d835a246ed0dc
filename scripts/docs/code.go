package main

import (
	"github.com/yuin/goldmark-highlighting/v2"
	"github.com/yuin/goldmark/util"
)

// wrapCode is what stands around a block of code. It can be scrolled by the keyboard;
// the page's script adds a button that copies it.
func wrapCode(w util.BufWriter, c highlighting.CodeBlockContext, entering bool) {
	if !entering {
		_, _ = w.WriteString("</code></pre>\n")
		return
	}
	language, _ := c.Language()
	_, _ = w.WriteString(`<pre tabindex="0"><code`)
	if len(language) > 0 {
		_, _ = w.WriteString(` data-language="` + string(util.EscapeHTML(language)) + `"`)
	}
	_, _ = w.WriteString(">")
}
