package problems_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/problems"
)

func TestProblemsAreOneLineAndEachIsWrapped(t *testing.T) {
	err := problems.Join(nil, fs.ErrExist, nil, problems.Join(fs.ErrClosed, fs.ErrInvalid))
	require.EqualError(t, err, fs.ErrExist.Error()+"; "+fs.ErrClosed.Error()+"; "+fs.ErrInvalid.Error())
	for _, want := range []error{fs.ErrExist, fs.ErrClosed, fs.ErrInvalid} {
		assert.ErrorIs(t, err, want)
	}
	assert.NotErrorIs(t, err, fs.ErrNotExist)
	require.EqualError(t, problems.Join(errors.New("alone")), "alone")
}

func TestNoProblemIsNoError(t *testing.T) {
	assert.NoError(t, problems.Join())
	assert.NoError(t, problems.Join(nil, nil))
}
