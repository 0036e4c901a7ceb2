"""
A schema registry on the admin listener, which stores its schemas in a topic (Confluent: Schema Registry).

An HTTP request goes from resource to service, which forwards it to the leader of the topic; there store reads the log
into state, routes calls the handler with a context, and store appends the handler's entries before it answers.

* ``resource``: the HTTP resource and its plugin
* ``service``: handles or forwards requests
* ``store``: reads and writes the log on its leader
* ``state``: the state machine over the log
* ``entries``: the records of the log
* ``model``: schemas, references, versions; levels and modes
* ``limits``: limits of requests and of stored schemas
* ``errors``: Confluent's error codes

Requests:

* ``requests``: requests, responses, handlers' context
* ``rights``: the rights that requests need
* ``routing``: the form of routes
* ``routes``: the routes
* ``shapes``: JSON Schemas of requests and answers
* ``openapi``: the OpenAPI document
* ``lookup``: handlers that read
* ``registration``: handlers that register, look up and test schemas
* ``deletion``: handlers that delete
* ``settings``: handlers of levels and modes

Schemas:

* ``parsed_schema``: parses and validates a schema with its references
* ``json_text``: parses and normalizes JSON
* ``compatibility``: compares a schema with earlier versions
* ``value_schemas``: schemas as what reads values, or makes them of JSON
* ``avro_values``: Avro values as people read them
* ``avro_encoding``: JSON as Avro values
* ``avro_schema``: Avro schemas
* ``avro_compatibility``: compatibility of Avro schemas
* ``json_schema``: JSON Schemas
* ``json_values``: values that a JSON Schema allows
* ``json_compatibility``, ``json_bounds``: compatibility of JSON Schemas
* ``protobuf_schema``: Protobuf schemas
* ``protobuf_compiler``: runs protoc
* ``protobuf_text``: descriptors as text
* ``protobuf_values``: Protobuf values as people read and write them
* ``protobuf_compatibility``: compatibility of Protobuf schemas
"""
