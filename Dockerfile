# syntax=docker/dockerfile:1
# The operator: Debian's Python, a virtual environment with the locked dependencies, the package operator/dijob, and the page
# (operator/dijob_extras/ui).
#
# Build it with `make images`; by hand: docker build -t dijob/operator:VERSION . (the optional secrets `pip` and `ca` are a
# pip.conf and certificates of the building machine, which must not get into a layer).
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS build
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv
COPY requirements.txt /tmp/requirements.txt
# Install wheels only, so that the build needs no compiler. Remove pip and setuptools, because nothing is installed later.
RUN --mount=type=secret,id=pip,target=/run/pip.conf \
    --mount=type=secret,id=ca,target=/run/ca.crt \
    python3 -m venv /opt/dijob \
 && PIP_CONFIG_FILE=/run/pip.conf /opt/dijob/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
      --no-compile --no-deps --only-binary :all: --require-hashes -r /tmp/requirements.txt \
 && /opt/dijob/bin/python -m pip uninstall -q -y setuptools pip \
 && find /opt/dijob -depth -type d \( -name tests -o -name test -o -name __pycache__ \) -exec rm -rf {} +
# Compile the code here, because the root is read-only at run time. Validate by hash, because COPY changes the times of files.
RUN /opt/dijob/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/dijob/lib

FROM ${BASE}
# Compile Python's own library again, by hash like the rest. The build sets one time for all files of the layers, so that the
# image is reproducible (images/build.py), and that must not invalidate the compiled files.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 \
 && python3 -m compileall -q -f -j 0 --invalidation-mode unchecked-hash /usr/lib/python3.11 /usr/lib/python3/dist-packages \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/ldconfig /var/log/*.log /var/log/apt
COPY --from=build /opt/dijob /opt/dijob
# Copy the code last, so that a change of it rebuilds only the last layers.
COPY operator/dijob /opt/dijob/lib/python3.11/site-packages/dijob
COPY operator/dijob_extras /opt/dijob/lib/python3.11/site-packages/dijob_extras
# A clone may have empty folders of packages that no longer exist.
RUN cd /opt/dijob/lib/python3.11/site-packages \
 && find dijob dijob_extras -type d -empty -delete \
 && python3 -m compileall -q --invalidation-mode unchecked-hash "$PWD/dijob" "$PWD/dijob_extras"
ENV PATH=/opt/dijob/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
LABEL org.opencontainers.image.title="dijob-operator" \
      org.opencontainers.image.description="Runs DI-engine's ditask on Kubernetes from one DIJob" \
      org.opencontainers.image.licenses="Apache-2.0"
ENTRYPOINT ["/opt/dijob/bin/python", "-m", "dijob"]
