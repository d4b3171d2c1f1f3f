package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

type networkOpts struct {
	Mode string `yaml:"mode"`
}

type cluster struct {
	URL         string `yaml:"url"`
	Insecure    bool   `yaml:"insecure"`
	TokenID     string `yaml:"token_id"`
	TokenSecret string `yaml:"token_secret"`
	Region      string `yaml:"region"`
}

type cloudConfig struct {
	Features struct {
		Provider string      `yaml:"provider"`
		Network  networkOpts `yaml:"network"`
		HAGroup  bool        `yaml:"ha_group"`
	} `yaml:"features"`
	Clusters []cluster `yaml:"clusters"`
}

// readConfig is strict: an unknown key or a wrong shape ends the program, as in the real one.
func readConfig(file string) (*cloudConfig, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	config := &cloudConfig{}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(config); err != nil {
		return nil, err
	}
	if len(config.Clusters) == 0 {
		return nil, errors.New("no clusters in the configuration")
	}
	for i, one := range config.Clusters {
		if one.URL == "" || one.TokenID == "" || one.TokenSecret == "" || one.Region == "" {
			return nil, fmt.Errorf("cluster #%d: url, token_id, token_secret and region are needed", i+1)
		}
	}
	return config, nil
}

// vm is one row of the site's list, as far as the token sees it.
type vm struct {
	ID     int    `json:"vmid"`
	Name   string `json:"name"`
	Node   string `json:"node"`
	Status string `json:"status"`
	cluster
}

type proxmox struct {
	clusters []cluster
	client   *http.Client

	mutex  sync.Mutex
	cached []vm
	at     time.Time
}

var errUnauthorised = errors.New("not authorized to access endpoint")

func newProxmox(config *cloudConfig) *proxmox {
	insecure := false
	for _, one := range config.Clusters {
		insecure = insecure || one.Insecure
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure}}
	return &proxmox{clusters: config.Clusters, client: &http.Client{Transport: transport, Timeout: 20 * time.Second}}
}

func (p *proxmox) get(ctx context.Context, c cluster, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.URL, "/")+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", fmt.Sprintf("PVEAPIToken=%s=%s", c.TokenID, c.TokenSecret))
	request.Header.Set("User-Agent", "ProxmoxCCM/1.0")
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return errUnauthorised
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.Unmarshal(data, &struct {
		Data any `json:"data"`
	}{into})
}

// hello is what the real one asks at its start; wrong answers are only logged there, and the program goes on.
func (p *proxmox) hello(ctx context.Context) {
	for _, one := range p.clusters {
		if err := p.get(ctx, one, "/version", &struct{}{}); err != nil {
			logf("region %s: %v", one.Region, err)
		}
	}
	if _, err := p.list(ctx); err != nil {
		logf("could not list cluster resources: %v", err)
	}
}

// list is every VM that the token sees; answers are used for 5 s.
func (p *proxmox) list(ctx context.Context) ([]vm, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if time.Since(p.at) < 5*time.Second {
		return p.cached, nil
	}
	var all []vm
	for _, one := range p.clusters {
		var rows []vm
		if err := p.get(ctx, one, "/cluster/resources?type=vm", &rows); err != nil {
			return nil, fmt.Errorf("could not list cluster resources: %w", err)
		}
		for _, row := range rows {
			row.cluster = one
			all = append(all, row)
		}
	}
	p.cached, p.at = all, time.Now()
	return all, nil
}

type vmConfig struct {
	SMBios string `json:"smbios1"`
	Cores  any    `json:"cores"`
	Socket any    `json:"sockets"`
	Memory any    `json:"memory"`
}

func (p *proxmox) config(ctx context.Context, one vm) (*vmConfig, error) {
	config := &vmConfig{}
	return config, p.get(ctx, one.cluster, fmt.Sprintf("/nodes/%s/qemu/%d/config", one.Node, one.ID), config)
}

func (p *proxmox) status(ctx context.Context, one vm) (string, error) {
	current := struct {
		Status string `json:"status"`
	}{}
	err := p.get(ctx, one.cluster, fmt.Sprintf("/nodes/%s/qemu/%d/status/current", one.Node, one.ID), &current)
	return current.Status, err
}

func uuidOf(config *vmConfig) string {
	for _, part := range strings.Split(config.SMBios, ",") {
		if value, ok := strings.CutPrefix(part, "uuid="); ok {
			return strings.ToLower(value)
		}
	}
	return ""
}
