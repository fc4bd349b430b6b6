package cache_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	for text, want := range map[string]cache.Name{
		"web":      {Name: "web"},
		"prod/web": {Namespace: "prod", Name: "web"},
		" / ":      {Namespace: " ", Name: " "},
	} {
		got, err := cache.ParseName(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
	for text, want := range map[string]string{
		"":      `cache: parse "": not a name: the name is empty`,
		"a/":    `cache: parse "a/": not a name: the name is empty`,
		"/a":    `cache: parse "/a": not a name: the namespace is empty`,
		"a/b/c": `cache: parse "a/b/c": not a name: more than one slash`,
		"a//b":  `cache: parse "a//b": not a name: more than one slash`,
	} {
		_, err := cache.ParseName(text)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, cache.ErrName)
	}
}

func TestDeltaTypesHaveNames(t *testing.T) {
	for want, dt := range map[string]cache.DeltaType{
		"Added": cache.Added, "Updated": cache.Updated, "Deleted": cache.Deleted, "Replaced": cache.Replaced,
		"Sync": cache.Sync, "DeltaType(0)": 0,
	} {
		require.Equal(t, want, dt.String())
	}
}
