module github.com/logbus/logbus/testkit/go

go 1.21
