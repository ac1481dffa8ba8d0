"""The one base of every model here: camelCase outside, snake_case inside, frozen, and closed against unknown fields."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """Frozen and closed; read and written in camelCase, as Kubernetes and JSON users expect."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid", frozen=True
    )

    def to_json_dict(self) -> dict[str, object]:
        """The wire form: camelCase, JSON types, fields that are absent left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class OpenModel(ApiModel):
    """For wire messages: fields of a newer peer are ignored, so that either side can be upgraded first."""

    model_config = ConfigDict(extra="ignore")
