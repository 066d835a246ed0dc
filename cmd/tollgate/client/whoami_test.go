package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// Every account of the grant is shown, also where there are more than one page.
func TestWhoamiShowsAllAccounts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, more := "ma_1", `true,"next_cursor":"c"`
		if r.URL.Query().Get("cursor") == "c" {
			id, more = "ma_2", `false,"next_cursor":null`
		}
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"name":"shop"}],"has_more":%s}`, id, more)
	}))
	defer server.Close()
	token := "x." + "eyJzY29wZSI6ImFjY291bnRzOnJlYWQifQ" + ".x" // {"scope":"accounts:read"}
	a, stdout, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": token})
	if exit := a.Run(t.Context(), clitest.Root(a, Commands(a)...), []string{"whoami"}); exit != cli.ExitOK {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	for _, id := range []string{"ma_1", "ma_2"} {
		if !strings.Contains(stdout.String(), id+"  shop") {
			t.Errorf("no %s:\n%s", id, stdout)
		}
	}
}
