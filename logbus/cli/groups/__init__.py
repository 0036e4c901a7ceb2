"""
Groups, their offsets and lag, for ``groups``.

* ``group_lag``: committed offsets, ends and members of groups
* ``group_offsets``: reads and deletes committed offsets
* ``offset_target``: the target of an offset reset
* ``offset_reset``: plans and commits reset offsets
* ``offset_file``: files of ``groups export`` and ``groups import``
* ``znode_offsets``: such files in the format of Kafka's ExportZkOffsets
"""
