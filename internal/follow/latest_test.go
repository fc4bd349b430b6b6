package follow_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
)

func TestLatestIsSharedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l follow.Latest
		reads := 0
		get := func(version informer.Version, err error) (informer.Version, error) {
			return l.Get(time.Second, func() (informer.Version, error) {
				reads++
				return version, err
			})
		}
		v, err := get(7, nil)
		require.NoError(t, err)
		assert.EqualValues(t, 7, v)
		time.Sleep(time.Second - time.Nanosecond)
		v, err = get(8, nil)
		require.NoError(t, err)
		assert.EqualValues(t, 7, v)
		assert.Equal(t, 1, reads)
		time.Sleep(time.Nanosecond)
		bad := errors.New("bad")
		_, err = get(8, bad)
		require.ErrorIs(t, err, bad)
		v, err = get(9, nil)
		require.NoError(t, err)
		assert.EqualValues(t, 9, v)
		assert.Equal(t, 3, reads)
	})
}

func TestSlowerAnswerDoesNotReplaceLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l follow.Latest
		go func() {
			_, _ = l.Get(time.Minute, func() (informer.Version, error) {
				time.Sleep(2 * time.Second)
				return 1, nil
			})
		}()
		time.Sleep(time.Second)
		_, _ = l.Get(time.Minute, func() (informer.Version, error) { return 2, nil })
		time.Sleep(2 * time.Second)
		v, err := l.Get(time.Minute, func() (informer.Version, error) { return 3, nil })
		require.NoError(t, err)
		assert.EqualValues(t, 2, v)
	})
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a": "b", "a/": "a0", "a\xff": "b", "\xff\xff": "", "a\xfe": "a\xff"} {
		assert.Equal(t, want, follow.PrefixEnd(prefix), "%q", prefix)
	}
}
