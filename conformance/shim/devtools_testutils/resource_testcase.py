"""The name under which a test is handed its resource group."""

RESOURCE_GROUP_PARAM = "resource_group"
