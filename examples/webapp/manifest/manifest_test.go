package manifest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

const blue = `{"name": "blue", "replicas": 3, "port": 8001, "message": "hello"}`

func TestParseReadsManifest(t *testing.T) {
	m, err := manifest.Parse("blue.json", []byte(blue+"\n"))
	require.NoError(t, err)
	require.Equal(t, manifest.Manifest{Name: "blue", Replicas: 3, Port: 8001, Message: "hello"}, m)

	m, err = manifest.Parse("x.json", []byte(`{"port": 65535, "replicas": 0, "name": "`+strings.Repeat("x", 40)+`"}`))
	require.NoError(t, err, "the limits themselves are allowed, and a message is not required")
	require.Equal(t, manifest.Manifest{Name: strings.Repeat("x", 40), Port: 65535}, m)

	_, err = manifest.Parse("x.json", []byte(`{"name":"x","replicas":50,"port":1,"message":"`+strings.Repeat("m", 1000)+`"}`))
	require.NoError(t, err)
}

func TestParseErrorsNameFileFieldAndLimit(t *testing.T) {
	with := func(field, value string) string {
		fields := map[string]string{"name": `"blue"`, "replicas": "3", "port": "8001", "message": `"hello"`}
		fields[field] = value
		return `{"name": ` + fields["name"] + `, "replicas": ` + fields["replicas"] + `, "port": ` + fields["port"] +
			`, "message": ` + fields["message"] + `}`
	}
	badName := `is not made of a-z, 0-9 and '-' with no '-' at either end`
	for _, test := range []struct{ name, data, want string }{
		{"no content", "", "the file is empty"},
		{"white space only", " \n", "the file is empty"},
		{"half of an object", `{"name": "blue"`, "the file ends in the middle"},
		{"half of a field", `{"name": "blue", "replicas": 3, "po`, "the file ends in the middle"},
		{"half of a value", `{"name": "blue", "message": "he`, "message: the file ends in the middle"},
		{"a byte order mark", "\ufeff" + blue, "the file begins with a byte order mark: save it as UTF-8 without one"},
		{"UTF-16", "\xff\xfe{\x00", "the file is in UTF-16: save it as UTF-8"},
		{"not JSON", "replicas: 3", "invalid character 'r' looking for beginning of value"},
		{"a list", "[" + blue + "]", "the file does not hold a JSON object"},
		{"a second object", blue + blue, "there is something after the object"},
		{"a trailing comma after the object", blue + ",", "there is something after the object"},
		{"not UTF-8", strings.Replace(blue, "hello", "hell\xff", 1), "the file is not in UTF-8"},
		{"too large a file", blue + strings.Repeat(" ", 64<<10), "the file has more than 65536 bytes"},
		{"a field that does not exist", `{"replica": 3}`, `there is no field "replica"`},
		{"a field in capital letters", `{"Name": "blue"}`, `there is no field "Name"`},
		{"a field with a long name", `{"` + strings.Repeat("n", 50) + `": 1}`, `there is no field "` + strings.Repeat("n", 40) + `..."`},
		{"a field twice", `{"port": 1, "port": 2}`, "port: is there twice"},
		{"no name", `{"replicas": 3, "port": 8001}`, "name: is missing"},
		{"no replicas", `{"name": "blue", "port": 8001}`, "replicas: is missing"},
		{"no port", `{"name": "blue", "replicas": 3}`, "port: is missing"},
		{"null for replicas", with("replicas", "null"), "replicas: is not a number"},
		{"null for a message", with("message", "null"), "message: is not a string"},
		{"text for replicas", with("replicas", `"3"`), "replicas: is a string: write the number without quotes"},
		{"a fraction of a replica", with("replicas", "2.5"), "replicas: is 2.5: write an integer, in digits alone"},
		{"an integer with an exponent", with("replicas", "1e9"), "replicas: is 1e9: write an integer, in digits alone"},
		{"a long fraction", with("replicas", "1."+strings.Repeat("0", 99)), "replicas: is 1." + strings.Repeat("0", 38) + "...: write an integer, in digits alone"},
		{"a number out of range", with("port", strings.Repeat("9", 99)), "port: has more digits than any limit"},
		{"a number for a name", with("name", "1"), "name: is not a string"},
		{"too few replicas", with("replicas", "-1"), "replicas: is -1; the limits are 0 and 50"},
		{"too many replicas", with("replicas", "51"), "replicas: is 51; the limits are 0 and 50"},
		{"port 0", with("port", "0"), "port: is 0; the limits are 1 and 65535"},
		{"too high a port", with("port", "65536"), "port: is 65536; the limits are 1 and 65535"},
		{"an empty name", with("name", `""`), "name: has 0 bytes; the limits are 1 and 40"},
		{"too long a name", with("name", `"`+strings.Repeat("x", 41)+`"`), "name: has 41 bytes; the limits are 1 and 40"},
		{"a name in capital letters", with("name", `"Blue"`), `name: "Blue" ` + badName},
		{"a name with a dot inside", with("name", `"a.b"`), `name: "a.b" ` + badName},
		{"a name that begins with a hyphen", with("name", `"-a"`), `name: "-a" ` + badName},
		{"a name that ends with a hyphen", with("name", `"a-"`), `name: "a-" ` + badName},
		{"a path for a name", with("name", `"../a"`), `name: "../a" ` + badName},
		{"too long a message", with("message", `"`+strings.Repeat("x", 1001)+`"`), "message: has 1001 bytes; the limit is 1000"},
		{"a NUL in the message", with("message", `"\u0000"`), "message: holds a NUL, which no argument of a process can"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := manifest.Parse("app.json", []byte(test.data))
			require.EqualError(t, err, "manifest: app.json: "+test.want)
			require.Zero(t, m)
		})
	}
}

func TestFileNameIsEscapedForTerminal(t *testing.T) {
	_, err := manifest.Parse("a\x1b[2J\n.json", nil)
	require.EqualError(t, err, `manifest: "a\x1b[2J\n.json": the file is empty`)
	_, err = manifest.Parse("with space.json", nil)
	require.EqualError(t, err, "manifest: with space.json: the file is empty")
}

// FuzzParse checks that whatever Parse accepts is within the limits and means the same when it is written again, and
// that whatever it refuses is refused with a short error about the file.
func FuzzParse(f *testing.F) {
	f.Add([]byte(blue))
	f.Add([]byte(`{"name":"a-1","replicas":0,"port":1}`))
	f.Add([]byte(`{"name":"a","name":"b"}`))
	f.Add([]byte(`{"name":nul`))
	f.Add([]byte(`{"port":1e3,"replicas":-0,"name":"x","message":"\ud800\u0000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := manifest.Parse("f.json", data)
		if err != nil {
			var problem *manifest.Error
			if !errors.As(err, &problem) || problem.File != "f.json" || problem.Err == nil {
				t.Fatalf("not a problem of the file: %v", err)
			}
			if len(err.Error()) > 500 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("not a log line: %q", err)
			}
			return
		}
		if m.Replicas < 0 || m.Replicas > 50 || m.Port < 1 || m.Port > 65535 || len(m.Message) > 1000 ||
			m.Name == "" || len(m.Name) > 40 || strings.ContainsAny(m.Name, "./ \x00") {
			t.Fatalf("out of limits: %+v", m)
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := manifest.Parse("f.json", again); err != nil || same != m {
			t.Fatalf("%+v became %+v, %v", m, same, err)
		}
	})
}
