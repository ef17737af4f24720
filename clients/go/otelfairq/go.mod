module pgfairq/otelfairq

go 1.19

require (
	go.opentelemetry.io/otel v1.1.0
	go.opentelemetry.io/otel/trace v1.1.0
	pgfairq v0.0.0
)

replace pgfairq => ../
