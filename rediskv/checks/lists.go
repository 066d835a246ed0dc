package checks

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/record"
)

// ordered are lists in the order of their members, whose score is 0.
var ordered = []string{"exports:all", "rules", "shadows"}

// checkLists compares lists that no walk goes through with what they name.
func (w *walk) checkLists(ctx context.Context, names []string) ([][]Finding, error) {
	findings := make([][]Finding, len(names))
	for i, name := range names {
		var err error
		switch {
		case name == "perimeters":
			findings[i], err = w.checkMembers(ctx, name, "perimeter", w.K.VersionNamed)
		case name == "clients":
			findings[i], err = w.checkMembers(ctx, name, "client", w.K.Object)
		case name == "exports:files":
			findings[i], err = w.checkFiles(ctx)
		default:
			findings[i], err = w.checkOrdered(ctx, name)
		}
		if err != nil {
			return nil, err
		}
	}
	return findings, nil
}

// isList reports whether checkLists has to look at a key.
func isList(name string) bool {
	return name == "perimeters" || name == "clients" || name == "exports:files" || slices.Contains(ordered, name) || strings.HasSuffix(name, ":activations")
}

// checkMembers looks whether what a set names is there.
func (w *walk) checkMembers(ctx context.Context, set, object string, key func(string) string) (findings []Finding, err error) {
	var listed []string
	if err := w.Timed(ctx, set, func(ctx context.Context) (err error) {
		listed, err = w.Redis().SMembers(ctx, w.K.Object(set)).Result()
		return err
	}); err != nil {
		return nil, err
	}
	listed = slices.DeleteFunc(listed, func(name string) bool { return set == "clients" && name == rediskv.AllClients })
	slices.Sort(listed)
	for some := range slices.Chunk(listed, page) {
		there := make([]*redis.IntCmd, len(some))
		if err := w.Pipelined(ctx, set, func(ctx context.Context, pipe redis.Pipeliner) {
			for i, name := range some {
				there[i] = pipe.Exists(ctx, key(name))
			}
		}); err != nil {
			return nil, err
		}
		for i, name := range some {
			if there[i].Val() == 0 {
				findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, object, name, "the list of %s has it, and it is not there", set)})...)
			}
		}
	}
	return findings, nil
}

// checkFiles looks whether the room that files of exports take up is that of exports, and
// given back when their files go.
func (w *walk) checkFiles(ctx context.Context) (findings []Finding, err error) {
	var files []redis.Z
	if err := w.Timed(ctx, "export_files", func(ctx context.Context) (err error) {
		files, err = w.Redis().ZRangeWithScores(ctx, w.K.ExportFiles(), 0, -1).Result()
		return err
	}); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(files, page) {
		hashes := make([]*redis.SliceCmd, len(some))
		if err := w.Pipelined(ctx, "export_files", func(ctx context.Context, pipe redis.Pipeliner) {
			for i, z := range some {
				id, _ := z.Member.(string)
				hashes[i] = pipe.HMGet(ctx, w.K.Object(id), "st", "fin")
			}
		}); err != nil {
			return nil, err
		}
		for i, z := range some {
			id, _ := z.Member.(string)
			f := record.FieldsIn(hashes[i].Val(), "st", "fin")
			gone := float64(tollgate.Instant(f.Int("fin")).Add(exports.FileKept))
			switch {
			case f["st"] == "":
				findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "export", id, "its file takes up room, and it is not there")})...)
			case z.Score != math.Trunc(z.Score) || f["st"] == string(tollgate.ExportStatusSucceeded) && math.Abs(z.Score-gone) > float64(time.Minute.Milliseconds()):
				findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "export", id, "its file takes up room until %s, and is kept until %s", place(z.Score), place(gone))})...)
			}
		}
	}
	return findings, nil
}

// checkOrdered looks whether a list is in the order of its members, or, where these are
// of revisions of another record, whether each is of one of its own.
func (w *walk) checkOrdered(ctx context.Context, name string) (findings []Finding, err error) {
	var members *redis.ZSliceCmd
	var revision *redis.StringCmd
	key, revised := w.K.Object(name), ""
	if set, ok := strings.CutSuffix(name, ":activations"); ok {
		revised = w.K.Object(set)
	} else if key == w.K.Shadows() {
		revised = w.K.Shadowing()
	}
	if err := w.AtOnce(ctx, "ordered", func(ctx context.Context, pipe redis.Pipeliner) {
		members = pipe.ZRangeWithScores(ctx, key, 0, -1)
		if revised != "" {
			revision = pipe.HGet(ctx, revised, "v")
		}
	}); err != nil {
		return nil, err
	}
	before := 0.0
	for _, e := range look.EntriesOf(members.Val()) {
		if revised != "" {
			last, _ := strconv.ParseFloat(revision.Val(), 64)
			if e.Score <= before || e.Score > last || e.Score != math.Trunc(e.Score) {
				findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "record", e.Member, "%s has it at %s, behind %s, and the last revision is %s", key, place(e.Score), place(before), revision.Val())})...)
			}
			before = e.Score
		} else if e.Score != 0 {
			findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "record", e.Member, "%s has it at %s, and all are at 0", key, place(e.Score))})...)
		}
	}
	return findings, nil
}

// checkAllExports looks whether the list of all exports has them. It has none that were
// made before there was such a list.
func (w *walk) checkAllExports(ctx context.Context, ids []string) ([][]Finding, error) {
	there, listed := make([]*redis.IntCmd, len(ids)), make([]*redis.FloatCmd, len(ids))
	var first *redis.StringSliceCmd
	if err := w.AtOnce(ctx, "all_exports", func(ctx context.Context, pipe redis.Pipeliner) {
		first = pipe.ZRange(ctx, w.K.AllExports(), 0, 0)
		for i, id := range ids {
			there[i], listed[i] = pipe.Exists(ctx, w.K.Object(id)), pipe.ZScore(ctx, w.K.AllExports(), id)
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(ids))
	for i, id := range ids {
		if there[i].Val() == 1 && listed[i].Err() != nil && len(first.Val()) == 1 && id > first.Val()[0] {
			findings[i] = []Finding{repairable(consistency.Found(consistency.FindingIndex, "export", id, "the list of all exports does not have it"), func(c *rediskv.Commit) {
				c.Still("1", "EXISTS", w.K.Object(id))
				c.Do("ZADD", w.K.AllExports(), "0", id)
			}, "add %s to %s", id, w.K.AllExports())}
		}
	}
	return findings, nil
}

// checkGrants compares the list of grants with the grants: whose tokens are ended with
// a client is looked up in it.
func (w *walk) checkGrants(ctx context.Context, _ []string) ([][]Finding, error) {
	var listed map[string]string
	if err := w.Timed(ctx, "grants", func(ctx context.Context) (err error) {
		listed, err = w.Redis().HGetAll(ctx, w.K.Grants()).Result()
		return err
	}); err != nil {
		return nil, err
	}
	delete(listed, "v")
	var findings []Finding
	ids := slices.Sorted(maps.Keys(listed))
	for some := range slices.Chunk(ids, page) {
		texts := make([]*redis.StringCmd, len(some))
		if err := w.Pipelined(ctx, "grants", func(ctx context.Context, pipe redis.Pipeliner) {
			for i, id := range some {
				texts[i] = pipe.HGet(ctx, w.K.Object(id), "json")
			}
		}); err != nil {
			return nil, err
		}
		for i, id := range some {
			var grant struct {
				Client string `json:"client_id"`
			}
			switch {
			case !strings.HasPrefix(id, tollgate.PrefixGrant) || texts[i].Err() != nil:
				findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "grant", id, "the list of grants has it, and it is not there")})...)
			case json.Unmarshal([]byte(texts[i].Val()), &grant) == nil && grant.Client != listed[id]: // what is no JSON is found with its checksum
				findings = append(findings, plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "grant", id, "the list of grants says that it is of %s, and it is of %s", listed[id], grant.Client)})...)
			}
		}
	}
	return [][]Finding{findings}, nil
}
