package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/problem"
	"tollgate/rediskv/accounts"
)

func (s *Server) getOrganization(c *call) (*answer, error) {
	if c.pathID() != c.org {
		return nil, tollgate.NotFound()
	}
	return s.getResource(c, "organization")
}

func (s *Server) getLegalEntity(c *call) (*answer, error) { return s.getResource(c, "legal_entity") }

func (s *Server) getMerchantAccount(c *call) (*answer, error) {
	if !c.grant.Covers(c.pathID()) {
		if _, err := s.store.Account(c.ctx, c.org, c.pathID()); err != nil {
			return nil, err // one that does not exist is not found, covered or not
		}
		return nil, accountForbidden()
	}
	a, err := s.getResource(c, "merchant_account")
	if err != nil {
		return nil, err
	}
	return c.tagged(a.etag, func() (*answer, error) {
		docs, err := s.sync.Marked(c.ctx, c.org, []jsontext.Value{a.body})
		if err == nil {
			a.body = docs[0]
		}
		return a, err
	})
}

// listMerchantAccounts lists the accounts that the grant covers, by id.
func (s *Server) listMerchantAccounts(c *call) (*answer, error) {
	p, err := readPage[string](s, c, "asc", nil)
	if err != nil {
		return nil, err
	}
	org, err := s.store.Organization(c.ctx, c.org)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, id := range slices.Sorted(slices.Values(org.AccountIDs)) {
		if id > p.Position && c.grant.Covers(id) {
			ids = append(ids, id)
		}
	}
	ids, next := firstOf(ids, p.Limit)
	rows, err := s.store.MerchantAccounts(c.ctx, c.caller(http.StatusOK), ids)
	if err != nil {
		return nil, err
	}
	if rows, err = s.sync.Marked(c.ctx, c.org, rows); err != nil {
		return nil, err
	}
	return pageOf(p, rows, next != "", next)
}

// getResource answers with the JSON as it is stored; its revision is the ETag.
func (s *Server) getResource(c *call, kind string) (*answer, error) {
	doc, revision, err := s.store.ReadResource(c.ctx, c.caller(http.StatusOK), kind, c.pathID())
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, body: doc, etag: `"` + strconv.FormatInt(revision, 10) + `"`}, nil
}

// account finds the account that a request is about. One that it does not name
// is the grant's default, or the only one that the grant covers.
func (s *Server) account(c *call, id, param string) (*accounts.Account, error) {
	if id == "" {
		var err error
		if id, err = s.unnamedAccount(c, param); err != nil {
			return nil, err
		}
	}
	c.target = tollgate.AuditTarget{Type: "merchant_account", ID: id}
	a, err := s.store.Account(c.ctx, c.org, id)
	if err != nil {
		if e := problem.From(err); e.Code == tollgate.CodeNotFound {
			return nil, &tollgate.Error{Code: tollgate.CodeNotFound, Param: param, Message: "There is no such merchant account.", Cause: e.Cause}
		}
		return nil, err
	}
	if !c.grant.Covers(id) {
		return nil, accountForbidden()
	}
	return a, nil
}

// unnamedAccount is the account of a request that names none.
func (s *Server) unnamedAccount(c *call, param string) (string, error) {
	if c.grant.DefaultMerchantAccountID != nil {
		return *c.grant.DefaultMerchantAccountID, nil
	}
	ids := c.grant.MerchantAccountIDs
	if len(ids) == 0 {
		org, err := s.store.Organization(c.ctx, c.org)
		if err != nil {
			return "", err
		}
		ids = org.AccountIDs
	}
	if len(ids) == 1 {
		return ids[0], nil
	}
	listed := slices.Sorted(slices.Values(ids))
	listed = listed[:min(len(listed), maxAccountsListed)]
	return "", &tollgate.Error{
		Code: tollgate.CodeParameterMissing, Param: param,
		Message: fmt.Sprintf("The grant covers %d merchant accounts and has no default. Name one: %s.", len(ids), strings.Join(listed, ", ")),
		Context: tollgate.ErrorContext{Accounts: listed},
	}
}

// maxAccountsListed bounds how many accounts an error lists.
const maxAccountsListed = 20

// reaches reports whether the grant covers all of these accounts; none are all of
// the organization's.
func (c *call) reaches(accounts []string) bool {
	if len(accounts) == 0 {
		return len(c.grant.MerchantAccountIDs) == 0
	}
	return !slices.ContainsFunc(accounts, func(id string) bool { return !c.grant.Covers(id) })
}

func accountForbidden() *tollgate.Error {
	return problem.New(tollgate.CodeMerchantAccountForbidden, "The grant does not cover this merchant account.")
}
