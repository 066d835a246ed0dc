package handlers

import _ "embed"

// openAPI describes the API to machines; a test holds it to the route table.
//
//go:embed openapi.json
var openAPI []byte

func (s *Server) readOpenAPI(*call) (*answer, error) { return s.openapi.answer() }
