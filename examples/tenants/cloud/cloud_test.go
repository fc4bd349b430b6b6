package cloud_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
)

// call makes a call in a term of the lease "main".
func call(c *cloud.Cloud, term, method, path, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if term != "" {
		req.Header.Set(fencehttp.LeaseHeader, "main")
		req.Header.Set(fencehttp.TermHeader, term)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, req)
	return w
}

func newCloud(t *testing.T, cfg cloud.Config) *cloud.Cloud {
	c, err := cloud.New(cfg)
	require.NoError(t, err)
	return c
}

const bucket = `{"kind": "bucket", "region": "eu", "owner": "u1"}`

func TestResourceLifecycle(t *testing.T) {
	c := newCloud(t, cloud.Config{PerSecond: 100, Latency: -1})
	require.Equal(t, `{"revision":1}`+"\n", call(c, "1", "PUT", "/resources/a/b/bucket", bucket).Body.String())
	require.Equal(t, `{"revision":1}`+"\n", call(c, "1", "PUT", "/resources/a/b/bucket", bucket).Body.String(), "nothing has changed")
	require.Equal(t, []cloud.Resource{{Key: "a/b/bucket", Kind: "bucket", Region: "eu", Owner: "u1", Revision: 1}}, c.All().Items)

	var list cloud.List
	require.NoError(t, json.Unmarshal(call(c, "", "GET", "/resources", "").Body.Bytes(), &list))
	require.Equal(t, c.All(), list)

	require.Equal(t, 200, call(c, "1", "DELETE", "/resources/a/b/bucket?owner=u2", "").Code)
	require.Len(t, c.All().Items, 1, "it belongs to another owner")
	for range 2 {
		require.Equal(t, 200, call(c, "1", "DELETE", "/resources/a/b/bucket?owner=u1", "").Code)
		require.Equal(t, cloud.List{Revision: 2, Items: []cloud.Resource{}}, c.All())
	}
}

func TestInvalidRequestsAreRejectedWithReason(t *testing.T) {
	c := newCloud(t, cloud.Config{PerSecond: 100, Latency: -1})
	require.Equal(t, 200, call(c, "1", "PUT", "/resources/a", bucket).Code)
	for name, x := range map[string]struct {
		term, body string
		code       int
		says       string
	}{
		"no region":     {"1", `{"region": "moon", "owner": "u1"}`, http.StatusUnprocessableEntity, `there is no region "moon"`},
		"another owner": {"1", `{"kind": "bucket", "region": "eu", "owner": "u2"}`, http.StatusConflict, "it belongs to u1"},
		"invalid JSON":  {"1", `{`, http.StatusBadRequest, "unexpected EOF"},
	} {
		answer := call(c, x.term, "PUT", "/resources/a", x.body)
		assert.Equal(t, x.code, answer.Code, name)
		assert.Equal(t, x.says+"\n", answer.Body.String(), name)
	}
	require.Equal(t, http.StatusPreconditionRequired, call(c, "", "PUT", "/resources/a", bucket).Code, "without a term")
	require.EqualValues(t, 1, c.All().Revision, "nothing has changed")
}

func TestFormerLeaderIsRefused(t *testing.T) {
	c := newCloud(t, cloud.Config{PerSecond: 100, Latency: -1})
	require.Equal(t, 200, call(c, "2", "DELETE", "/resources/a?owner=u1", "").Code, "it need not exist")
	answer := call(c, "1", "PUT", "/resources/a", bucket)
	require.Equal(t, http.StatusPreconditionFailed, answer.Code)
	require.Equal(t, "2", answer.Header().Get(fencehttp.TermHeader))
	require.Empty(t, c.All().Items)
	require.Equal(t, 1, c.Stats().Fenced)
	require.Equal(t, 200, call(c, "", "GET", "/resources", "").Code, "anyone may read")
}

func TestLimitAppliesToAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloud.Config{Latency: -1})
		for range 5 {
			require.Equal(t, 200, call(c, "", "GET", "/resources", "").Code)
		}
		answer := call(c, "1", "PUT", "/resources/a", bucket)
		require.Equal(t, http.StatusTooManyRequests, answer.Code)
		require.Equal(t, "1", answer.Header().Get("Retry-After"))
		require.Equal(t, cloud.Stats{Calls: 6, Limited: 1}, c.Stats())
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, 200, call(c, "1", "PUT", "/resources/a", bucket).Code)
	})
}

func TestCloudIsSlowFailsAndForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloud.Config{})
		begin := time.Now()
		require.Equal(t, 200, call(c, "1", "PUT", "/resources/a", bucket).Code)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))

		c.SetDown(true)
		require.Equal(t, http.StatusInternalServerError, call(c, "1", "PUT", "/resources/b", bucket).Code)
		c.SetDown(false)
		require.Len(t, c.All().Items, 1)

		require.True(t, c.Lose("a"))
		require.False(t, c.Lose("a"))
		require.Equal(t, cloud.List{Revision: 2, Items: []cloud.Resource{}}, c.All())
	})
}

func TestHeldChangeArrivesAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloud.Config{})
		arrived, release := c.Hold()
		code := make(chan int)
		go func() { code <- call(c, "1", "PUT", "/resources/a", bucket).Code }() // ends with its answer
		<-arrived
		require.Equal(t, 200, call(c, "2", "PUT", "/resources/b", bucket).Code, "only one change is held")
		release()
		release()
		require.Equal(t, http.StatusPreconditionFailed, <-code, "another leader wrote first")
	})
}

func TestNegativeLimitIsRejected(t *testing.T) {
	_, err := cloud.New(cloud.Config{PerSecond: -1})
	require.EqualError(t, err, "cloud: new cloud: Config.PerSecond is -1, must not be negative")
}
