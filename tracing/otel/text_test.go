package otel_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
	setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
)

// A message of OTLP cannot contain a text that is not UTF-8. So an exporter drops all spans of the message.
func TestTextsOfSpanAreUTF8(t *testing.T) {
	const bad = "a\xffb"
	for name, reconcile := range map[string]func() error{
		"failed":     func() error { return errors.New(bad) },
		"unfinished": func() error { return retry.NotYet(errors.New(bad), time.Second) },
		"panicked":   func() error { panic(bad) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(t, setpointotel.Config{})
				cfg := controller.Config[string]{Logger: quiet, Hooks: setpointotel.Hooks[string](p.Tracing)}
				c := must(controller.New(bad, func(context.Context, string) (controller.Result, error) {
					return controller.Result{}, reconcile()
				}, cfg))
				c.AddWith(bad, controller.AddOptions{Reason: bad})
				start(t, c.Run)
				synctest.Wait()
				spans := p.spans()
				require.NotEmpty(t, spans)
				texts := []string{spans[0].Name, spans[0].Status.Description}
				attributes := spans[0].Attributes
				for _, e := range spans[0].Events {
					attributes = append(attributes, e.Attributes...)
				}
				for _, a := range attributes {
					if a.Value.Type() == attribute.STRINGSLICE {
						texts = append(texts, a.Value.AsStringSlice()...)
					} else {
						texts = append(texts, a.Value.String())
					}
				}
				assert.Contains(t, texts, "a\uFFFDb")
				for _, text := range texts {
					assert.True(t, utf8.ValidString(text), "%q", text)
				}
			})
		})
	}
}
