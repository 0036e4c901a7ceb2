"""
A client of a schema registry, and serializers that use it.

* ``schema_registry``: SchemaRegistry: registers and looks up schemas, with a cache
* ``avro``: AvroSerializer, AvroDeserializer; needs the extra ``avro``
* ``json_schema``: JsonSchemaSerializer, JsonSchemaDeserializer; needs the extra ``jsonschema``
* ``protobuf``: ProtobufSerializer, ProtobufDeserializer; needs the extra ``protobuf``
* ``schema_serializer``: their base: schemas' ids by topic, and schemas by id
* ``schema_frame``: the frame with the schema id before a value
* ``message_place``: the place of a Protobuf message, behind that frame
* ``registry_http``: HTTP requests with retries over several URLs
* ``http_body``: request bodies, and responses of limited size
* ``lru_cache``: LruCache
"""
