"""The admin client: topics, settings, groups, transactions, replicas and log directories."""
