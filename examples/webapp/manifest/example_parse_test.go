package manifest_test

import (
	"fmt"

	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

// A manifest is strict: a mistake is an error that says where it is.
func ExampleParse() {
	m, err := manifest.Parse("blue.json", []byte(`{"name": "blue", "replicas": 3, "port": 8001, "message": "hello"}`))
	fmt.Printf("%+v %v\n", m, err)

	_, err = manifest.Parse("blue.json", []byte(`{"name": "blue", "replicas": 300, "port": 8001}`))
	fmt.Println(err)
	// Output:
	// {Name:blue Replicas:3 Port:8001 Message:hello} <nil>
	// manifest: blue.json: replicas: is 300; the limits are 0 and 50
}
