module github.com/setpoint-go/setpoint/store/mysql

go 1.25.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/setpoint-go/setpoint v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/time v0.15.0 // indirect
)

replace github.com/setpoint-go/setpoint => ../../
