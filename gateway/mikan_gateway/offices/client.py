"""The connection to the API server: a service account's inside a cluster, a kubeconfig outside."""

from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config.config_exception import ConfigException

from mikan_api.exceptions import ConfigError


async def connect(kubeconfig: str | None = None) -> ApiClient:
    """A client for whatever cluster this process is meant to use; nothing is asked of it yet.

    Args:
        kubeconfig: path to use outside a cluster; by default the user's own.

    Raises:
        ConfigError: neither a service account nor a usable kubeconfig.
    """
    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except ConfigException:
        try:
            await config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        except (ConfigException, OSError) as error:
            raise ConfigError(f"no access to Kubernetes: neither a service account nor KUBECONFIG ({error})") from None
    return ApiClient(configuration)
