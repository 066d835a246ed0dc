package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/yuin/goldmark"
	highlighting "github.com/yuin/goldmark-highlighting/v2"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// markdown is what forges render: GitHub's dialect. Code has classes for its colours,
// never a style of its own, which the content security policy refuses.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM, highlighting.NewHighlighting(
		highlighting.WithFormatOptions(html.WithClasses(true), html.PreventSurroundingPre(true)),
		highlighting.WithWrapperRenderer(wrapCode),
	)),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// address is that of a link within a heading, which is no part of its anchor.
var address = regexp.MustCompile(`\]\([^)]*\)`)

// anchors gives headings the ids that GitHub gives them, so that a link leads to the
// same place here and there.
type anchors struct{ seen map[string]int }

// Generate makes the id of a heading of its source.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, address.ReplaceAllString(strings.TrimSpace(string(value)), ""))
	n := a.seen[id]
	if a.seen[id]++; n > 0 {
		id += "-" + strconv.Itoa(n)
	}
	return []byte(id)
}

// Put is for ids that a page sets itself; ours set none.
func (a *anchors) Put([]byte) {}

// readPage parses a page and renders its body.
func readPage(root, name string, source []byte) (*page, error) {
	p := &page{name: name, anchors: map[string]bool{}}
	tree := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{map[string]int{}}))))
	reader := &pageReader{page: p, root: root, source: source}
	if err := ast.Walk(tree, reader.visit); err != nil {
		return nil, err
	}
	reader.close()
	if p.title == "" {
		return nil, errors.New("the page does not begin with a heading")
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, tree); err != nil {
		return nil, err
	}
	// A wide table scrolls by itself, and by the keyboard.
	p.body = template.HTML(strings.NewReplacer( //nolint:gosec // goldmark escapes
		"<table>", `<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>`, "</table>", "</table></div>",
	).Replace(b.String()))
	return p, nil
}

// pageReader collects what the rest of the site must know of a page, and has its links
// lead to pages.
type pageReader struct {
	page   *page
	root   string
	source []byte
	part   reading
	words  strings.Builder
}

// reading is the part that is being read.
type reading struct{ anchor, heading string }

func (r *pageReader) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	switch n := n.(type) {
	case *ast.Heading:
		r.heading(n)
	case *ast.RawHTML, *ast.HTMLBlock:
		return ast.WalkStop, errors.New("a page has no HTML: forges and this program would show it differently")
	case *ast.Link:
		return ast.WalkContinue, r.link(n)
	case *ast.Image:
		return ast.WalkContinue, r.image(n)
	case *ast.Paragraph, *east.TableCell, *ast.TextBlock:
		words := plain(n, r.source)
		if _, ok := n.(*ast.Paragraph); ok && r.page.summary == "" {
			r.page.summary = words
		}
		r.words.WriteString(words + " ")
	case *ast.FencedCodeBlock:
		r.words.WriteString(string(n.Lines().Value(r.source)) + " ")
	}
	return ast.WalkContinue, nil
}

func (r *pageReader) heading(n *ast.Heading) {
	id, _ := n.AttributeString("id")
	anchor, _ := id.([]byte)
	words := plain(n, r.source)
	r.page.anchors[string(anchor)] = true
	r.close()
	r.part = reading{string(anchor), words}
	switch {
	case r.page.title == "":
		r.page.title = words
		r.part = reading{"", words}
	case n.Level == 2 || n.Level == 3:
		r.page.headings = append(r.page.headings, heading{string(anchor), words, n.Level})
	}
}

// close ends a part.
func (r *pageReader) close() {
	if r.part.heading != "" {
		r.page.texts = append(r.page.texts, textPart{r.part.anchor, r.part.heading, strings.Join(strings.Fields(r.words.String()), " ")})
	}
	r.words.Reset()
}

// link has a link to a page lead to its address here. What is in the repository and no
// page is named, and has no link.
func (r *pageReader) link(n *ast.Link) error {
	written := string(n.Destination)
	if u, err := url.Parse(written); err != nil || u.IsAbs() {
		return err
	}
	name, fragment, _ := strings.Cut(written, "#")
	file := path.Join("handlers/docs", name)
	if name == "" {
		file = "handlers/docs/" + r.page.name + ".md"
	}
	if dir, base := path.Split(file); dir == "handlers/docs/" && path.Ext(base) == ".md" {
		to := strings.TrimSuffix(base, ".md")
		r.page.links = append(r.page.links, link{to, fragment, written})
		n.Destination = []byte("/docs/" + to)
		if name == "" {
			n.Destination = nil
		}
		if fragment != "" {
			n.Destination = append(n.Destination, "#"+fragment...)
		}
		return nil
	}
	if file == "handlers/openapi.json" {
		n.Destination = []byte("/openapi.json")
		return nil
	}
	if _, err := os.Stat(filepath.Join(r.root, filepath.FromSlash(file))); err != nil {
		return fmt.Errorf("a link to %s: there is no %s", written, file)
	}
	n.Destination = []byte("/") // the front page is what the README is elsewhere
	if file != "README.md" {
		unlink(n)
	}
	return nil
}

// unlink leaves the words of a link.
func unlink(n *ast.Link) {
	em := ast.NewEmphasis(1)
	for c := n.FirstChild(); c != nil; c = n.FirstChild() {
		em.AppendChild(em, c)
	}
	n.Parent().ReplaceChild(n.Parent(), n, em)
}

// image brings a picture beside a page into the site.
func (r *pageReader) image(n *ast.Image) error {
	name := string(n.Destination)
	if strings.Contains(name, "/") || strings.Contains(name, ":") {
		return fmt.Errorf("the picture %s is not beside the page", name)
	}
	if plain(n, r.source) == "" {
		return fmt.Errorf("the picture %s has no text for those who do not see it", name)
	}
	r.page.uses = append(r.page.uses, name)
	n.Destination = []byte("/docs/" + name)
	return nil
}

// plain is the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
