module github.com/setpoint-go/setpoint/lincheck

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/setpoint-go/setpoint v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/time v0.15.0 // indirect
)

replace github.com/setpoint-go/setpoint => ../
